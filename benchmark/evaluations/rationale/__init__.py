"""Agreement with human rationales, as ERASER measures it."""
