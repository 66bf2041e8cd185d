/** A screen with XFCE and a browser, looked at and worked on from outside, for `@e2b/desktop`. */
import type { TemplateDefinition } from "../../src/contract/template-definition.ts";

/** What the clients call. */
const CALLED = [
  "xvfb",
  "x11-utils",
  "x11-xserver-utils",
  "xfce4-session",
  "xdotool",
  "scrot",
  "x11vnc",
  "novnc",
  "websockify",
  "net-tools",
  "procps",
  "libgtk-3-bin",
  "xdg-utils",
];

/** What makes a session of it, and has files open in the program that fits. */
const SESSION = [
  "xfwm4",
  "xfdesktop4",
  "xfce4-panel",
  "xfce4-settings",
  "xfconf",
  "dbus-daemon",
  "dbus-x11",
  "exo-utils",
  "libglib2.0-bin",
  "gsettings-desktop-schemas",
  "dconf-gsettings-backend",
  "shared-mime-info",
  "desktop-file-utils",
  "xdg-user-dirs",
  "adwaita-icon-theme",
  "librsvg2-common",
  "fonts-dejavu-core",
  "fonts-liberation",
  "fonts-noto-color-emoji",
  // Chinese, Japanese and Korean: 5 MB, where fonts-noto-cjk has 91 MB.
  "fonts-wqy-microhei",
];

/** What there is to work with. Office programs would double the size. */
const PROGRAMS = [
  "chromium",
  "mousepad",
  "xfce4-terminal",
  "thunar",
  "ristretto",
  "galculator",
  "x11-apps",
  "xclip",
  "wmctrl",
  "ffmpeg",
  "python3-xlib",
];

const INVISIBLE = '<property name="style" type="uint" value="0"/>';
/** Room beside the user's name, which the edge of the screen would cut, and an editor instead of a missing program. */
const PANEL = `sed -i /etc/xdg/xfce4/panel/default.xml \\
  -e 's|<value type="int" value="10"/>|&<value type="int" value="19"/>|' \\
  -e 's|<property name="plugin-11".*|&<property name="plugin-19" type="string" value="separator">${INVISIBLE}</property>|' \\
  -e 's|xfce4-appfinder|org.xfce.mousepad|'`;

export const desktop: TemplateDefinition = {
  name: "desktop",
  id: "sandlotdesktop000000",
  description: "A screen with XFCE and Chromium, and a stream of it",
  packages: [...CALLED, ...SESSION, ...PROGRAMS],
  finish: [PANEL],
  links: { "opt/noVNC": "../usr/share/novnc" },
  programs: {},
  start: { command: "/opt/sandlot/desktop/start-offer", ready: "/opt/sandlot/desktop/offer-ready" },
  cpuCount: 2,
  memoryMB: 2048,
  diskSizeMB: 10_240,
};
