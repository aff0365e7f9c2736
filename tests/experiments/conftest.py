import sys
from pathlib import Path

# `experiments` is a folder of scripts, installed nowhere.
sys.path.append(str(Path(__file__).parents[2]))
