"""Mean colour."""

import numpy as np


class Mine:
    dim = 3

    def __init__(self, path="weights.bin"):
        with open(path, "rb") as file:  # noqa: PTH123
            self.weights = file.read()

    def transform(self, image):
        return np.asarray(image.resize((8, 8)), np.float32)

    def embed_images(self, batch):
        return batch.mean(axis=(1, 2))
