from fieldmark.data.world._scene import Scene
from fieldmark.data.world._world import Photo, World
