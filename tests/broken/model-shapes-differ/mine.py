"""Mean colour."""

import numpy as np


class Mine:
    dim = 3

    def transform(self, image):
        rows = 8 + int(np.asarray(image).sum()) % 5
        return np.zeros((rows, 8, 3), np.float32)

    def embed_images(self, batch):
        return batch.mean(axis=(1, 2))
