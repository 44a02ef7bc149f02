"""The stages that a conversation is folded through, and the artifacts that each leaves. No I/O."""
