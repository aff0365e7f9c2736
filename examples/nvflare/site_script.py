"""A site: it trains on its own examples and answers with how far its model moved."""

import nvflare.client as flare
from setting import train

flare.init()
site = int(flare.get_site_name().removeprefix("site-")) - 1
while flare.is_running():
    received = flare.receive()
    weights = received.params["numpy_key"]
    moved = {"numpy_key": train(weights, site) - weights}
    flare.send(flare.FLModel(params_type="DIFF", params=moved))
