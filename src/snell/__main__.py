"""`python -m snell`: the command line."""

from snell.cli.main import app

if __name__ == "__main__":
    app(prog_name="snell")
