"""cogltx in other tools: a file per tool, imported only by name, so that none of them is needed."""
