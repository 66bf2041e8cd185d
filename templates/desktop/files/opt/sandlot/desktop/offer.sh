# The session that runs in the template's snapshot, read by those who have to do with it (start-offer, and Xvfb,
# xdpyinfo and startxfce4 in /usr/local/bin). A client always asks for a screen and a session of its own, and gets these
# instead if they are what it asks for; otherwise they end first. Files in memory say how far it is: they are gone
# when a sandbox boots anew, and so is the session.
#
#   offered   what Xvfb was called with; nobody has asked yet
#   deciding  somebody has, for one or the other
#   taken     the screen is the client's; its session is still to be asked for
#   painting  a session was started; it is not painted yet
offer=/dev/shm/sandlot-desktop
# Every process of that session has this in its environment.
offer_mark=SANDLOT_DESKTOP_OFFER=1

# For those who look at the screen, or start something on it, just after somebody has asked for it.
await_decision() {
  tries=0
  while { [ -e "$offer/offered" ] || [ -e "$offer/deciding" ]; } && [ "$tries" -lt 500 ]; do
    tries=$((tries + 1))
    sleep 0.02
  done
}

# Panel and desktop are on the screen and drawn, and nothing has changed for this many seconds.
is_painted() {
  for class in xfce4-panel xfdesktop; do
    /usr/bin/xdotool search --onlyvisible --class "$class" >/dev/null 2>&1 || return 1
  done
  /opt/sandlot/desktop/is-drawn || return 1
  folder=$(mktemp -d /dev/shm/painted.XXXXXX)
  scrot "$folder/first.png" && sleep "$1" && scrot "$folder/second.png" && cmp -s "$folder/first.png" "$folder/second.png"
  set -- $?
  rm -r "$folder"
  return "$1"
}

end_offer() {
  while pids=$(grep -lsxz "$offer_mark" /proc/[0-9]*/environ | cut -d/ -f3) && [ -n "$pids" ]; do
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null
    sleep 0.01
  done
  rm -f /tmp/.X0-lock
}
