"""Cloud Storage JSON v1: generations and preconditions enforced, bytes in a folder of the emulator's own."""
