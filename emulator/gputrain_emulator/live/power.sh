#!/bin/sh
# Nothing here reaches for a signal, a socket or a system call of power: one word goes into a FIFO of the
# machine itself, and where there is no such FIFO there is nothing to switch off.
switch=/run/emulated-machine/power
scheduled=/run/emulated-machine/scheduled
name=${0##*/}
word= delay=0
if [ "$name:$1" = systemctl:is-active ]; then
    for each in "$@"; do unit=${each%.service}; done
    read -r pid _ 2>/dev/null < "/run/emulated-machine/units/$unit" && [ -d "/proc/$pid" ]
    exit
fi
case $name in
    poweroff|halt) word=poweroff ;;
    reboot) word=reboot ;;
    shutdown) word=poweroff delay=60 ;;
esac
for each in "$@"; do
    case $name:$each in
        systemctl:poweroff|systemctl:halt|init:0|telinit:0) word=poweroff ;;
        systemctl:reboot|systemctl:kexec|init:6|telinit:6) word=reboot ;;
        shutdown:-r|shutdown:--reboot) word=reboot ;;
        shutdown:-c) word=cancel ;;
        shutdown:now|shutdown:+0) delay=0 ;;
        shutdown:+[0-9]*) delay=$((${each#+} * 60)) ;;
    esac
done
if [ ! -p "$switch" ] || [ -z "$word" ]; then
    echo "System has not been booted with systemd as init system (PID 1). Can't operate." >&2
    exit 1
fi
if [ "$word" = cancel ]; then
    [ -f "$scheduled" ] && kill "$(cat "$scheduled")" 2>/dev/null
    rm -f "$scheduled"
elif [ "$delay" = 0 ]; then
    echo "$word" > "$switch"
else
    (sleep "$delay"; echo "$word" > "$switch") > /dev/null 2>&1 &
    echo $! > "$scheduled"
fi
