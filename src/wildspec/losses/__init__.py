"""Losses of spectral representation learning."""

from wildspec.losses.spectral import (
    SpectralLoss,
    SpectralWildLoss,
    clip_norm,
    nscl_loss,
    scl_loss,
    spectral_loss,
)

__all__ = ["SpectralLoss", "SpectralWildLoss", "clip_norm", "nscl_loss", "scl_loss", "spectral_loss"]
