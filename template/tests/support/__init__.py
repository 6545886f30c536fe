"""What tests share: real databases, receivers, clocks. No test double of our own code."""
