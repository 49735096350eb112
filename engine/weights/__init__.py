"""From a model file to bit-planes in memory: codes, planes, sources of weights, and packs."""
