#!/bin/sh
# Finds a browser for the tests of the live page and prints its path: $SLIDEJOIN_CHROMIUM, or Chromium or Chrome on the
# PATH. Where there is none it is installed by apt-get, if that is possible; otherwise one line says what to install.
set -eu

find_browser() {
    if [ -n "${SLIDEJOIN_CHROMIUM:-}" ]; then
        if [ -x "$SLIDEJOIN_CHROMIUM" ]; then
            echo "$SLIDEJOIN_CHROMIUM"
            return
        fi
        echo "SLIDEJOIN_CHROMIUM is $SLIDEJOIN_CHROMIUM, which is not a program" >&2
        exit 1
    fi
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        if command -v $name; then
            return
        fi
    done
    return 1
}

if find_browser; then
    exit
fi
missing="the live page is tested in a browser, and there is none: install chromium, or set SLIDEJOIN_CHROMIUM to one"
# Ubuntu's package is a snap, which does not run everywhere.
if [ "${1:-}" != --find ] && [ "$(id -u)" = 0 ] && grep -qs '^ID=debian' /etc/os-release; then
    echo "installing chromium for the tests of the live page" >&2
    apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1 || {
        echo "$missing (apt-get could not install it)" >&2
        exit 1
    }
    find_browser && exit
fi
echo "$missing" >&2
exit 1
