"""What the example adds to the application. Delete the package when you have orders of your own."""

from app.features import Feature
from app.orders.events import ORDER_CREATED, ORDER_PAID
from app.orders.receipts import write_receipt
from app.orders.routes import Orders

FEATURE = Feature(
    name="orders",
    route_handlers=(Orders,),
    event_types=(ORDER_CREATED, ORDER_PAID),
    handlers=(write_receipt,),
)
