"""What a repeated call touches: handles, invokers, plans, the workspace arena."""
