import sys
from pathlib import Path

# `benchmarks` is a folder of scripts, installed nowhere.
sys.path.append(str(Path(__file__).parents[2]))
