"""A torch network whose photos can be read in any way."""

import torch

from fieldmark.models import Recipe, TorchBackbone


class Small(TorchBackbone):
    def __init__(self):
        super().__init__(torch.nn.Flatten(), Recipe((4, 4)))
