"""Programs and helpers for users: miopyx, miopyx db, miopyx-driver, ONNX models."""
