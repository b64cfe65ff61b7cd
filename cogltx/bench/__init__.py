"""Measure the cost and quality of reading long documents; one module per command."""
