"""A torch network that runs where it is told to."""

import torch

from fieldmark.models import TorchBackbone


class Small(TorchBackbone):
    def __init__(self, device="auto"):
        super().__init__(torch.nn.Flatten(), self.prepare, device=device)

    def prepare(self, image):
        return torch.zeros(3, 4, 4)
