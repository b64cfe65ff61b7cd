"""Windows and encoders: from blocks to vectors."""
