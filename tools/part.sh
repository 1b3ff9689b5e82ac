#!/bin/sh
# Runs a part of `make test` and notes how long it took: part.sh NAME BUDGET COMMAND...
# `part.sh start` forgets earlier ones, `part.sh report` prints them with their budgets (CONTRIBUTING.md).
set -eu
notes=build/parts
case $1 in
start)
    mkdir -p build
    : >$notes
    ;;
report)
    awk '{ total += $2; budget += $3; printf "%-8s %5d s of %4d%s\n", $1, $2, $3, $2 > $3 ? "  over its budget" : "" }
         END { printf "%-8s %5d s of %4d\n", "all", total, budget }' $notes
    ;;
*)
    name=$1 budget=$2
    shift 2
    began=$(date +%s)
    "$@"
    echo "$name $(($(date +%s) - began)) $budget" >>$notes
    ;;
esac
