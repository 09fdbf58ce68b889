"""DeepLIFT's multipliers on unmodified models: rules as autograd functions, and the mode that installs them."""

from methods.rescale.multipliers import rescaling

__all__ = ["rescaling"]
