// The library around the precompiled header.
