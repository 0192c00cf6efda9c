"""Accuracy of a network on a labelled set."""

import torch
from torch import nn

from wildspec.data import ImageSet, Preprocess


@torch.no_grad()
def accuracy(
    model: nn.Module, images: ImageSet, preprocess: Preprocess, device: torch.device, batch_size: int = 512
) -> float:
    """Share of images whose largest logit is their label, on ``device``; the model is moved there and left in the mode it
    came in."""
    was_training = model.training
    model.to(device).eval()
    dtype = next(model.parameters()).dtype
    right = torch.zeros((), dtype=torch.int64, device=device)
    for start in range(0, len(images), batch_size):
        where = torch.arange(start, min(start + batch_size, len(images)))
        logits = model(preprocess(images.gather(where).to(device)).to(dtype))
        right += (logits.argmax(1) == images.labels[where.to(images.labels.device)].to(device)).sum()
    model.train(was_training)
    return right.item() / len(images)
