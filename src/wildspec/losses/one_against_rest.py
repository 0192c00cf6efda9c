"""One-against-rest heads of OVANet (Saito and Saenko, ICCV 2021): for each class a pair of logits, "yes" and "no".

Only their difference counts: z_k = yes_k - no_k, p_k(yes) = sigmoid(z_k). Labelled samples, hard negatives only:
    l(z, y) = 1/2 [ -log p_y(yes) + max_{k != y} -log p_k(no) ]
wild samples: the mean entropy of the pairs, so that each head decides one way or the other.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def one_against_rest_loss(odds: Tensor, labels: Tensor) -> Tensor:
    """(B, K) log-odds of "yes", (B,) labels -> scalar, mean over the batch; with K = 1 there is no other class."""
    own = F.softplus(-odds.gather(1, labels[:, None])).squeeze(1)
    other = F.softplus(odds).scatter(1, labels[:, None], 0.0).amax(1)  # softplus > 0: the own class never is the largest
    return 0.5 * (own + other).mean()


def pair_entropy(odds: Tensor) -> Tensor:
    """(B, K) log-odds -> scalar: mean over samples and heads of the entropy of (p, 1 - p), at most log 2."""
    return (F.softplus(odds) - odds * torch.sigmoid(odds)).mean()
