"""The launches in Triton. Importing them takes Triton."""
