import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for support.py: how programs are run
