#!/bin/sh
# A stand-in for the tests of the kernel.
echo y
