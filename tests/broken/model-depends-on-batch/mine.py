"""Colours less the mean of the batch: what a network in training mode does."""

import numpy as np


class Mine:
    dim = 3

    def transform(self, image):
        return np.asarray(image.resize((8, 8)), np.float32)

    def embed_images(self, batch):
        return batch.mean(axis=(1, 2)) - batch.mean(axis=(0, 1, 2))
