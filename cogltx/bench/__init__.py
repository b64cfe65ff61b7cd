"""What reading long documents costs and gains: each module is a command."""
