"""Training: relevance labels, window sampling, the joint trainer, checkpoints."""
