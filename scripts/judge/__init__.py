"""How well a checkpoint speaks: two recognisers, predicted opinion scores and a speaker encoder listen to it."""
