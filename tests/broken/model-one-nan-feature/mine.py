"""Mean colour."""

import numpy as np


class Mine:
    dim = 3

    def transform(self, image):
        return np.asarray(image.resize((8, 8)), np.float32)

    def embed_images(self, batch):
        means = batch.mean(axis=(1, 2))
        return np.where(means < 100, np.nan, means)
