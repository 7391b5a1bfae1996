"""Mean colour."""

import numpy as np


class Mine:
    dim = 3

    def transform(self, image):
        return np.asarray(image.resize((8, 8)), np.float32)

    def embed_images(self, batch):
        return batch.mean(axis=(1, 2))
