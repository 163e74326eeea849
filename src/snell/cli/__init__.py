"""The ``snell`` command. ``main`` registers the commands; each command is one module."""
