"""The inbox as a feature: it adds no route and no event type, only `inbox.once` to call."""

from app.features import Feature

FEATURE = Feature(name="inbox")
