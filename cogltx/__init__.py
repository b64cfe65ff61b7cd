"""CogLTX: read documents of any length with a BERT, and show the evidence.

The public names are those of ``__init__.pyi``. Each is imported on first use, so importing the package does not import
torch. A configuration inside another one is given as a dictionary, as in a YAML file.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
