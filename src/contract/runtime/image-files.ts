/** Files that every image has for its sandboxes. The host writes them into its own images, the guest into others. */

/**
 * Every command of a client runs in a login shell, which executes this file. It does what Debian's does, but starts no
 * process.
 */
export function profile(shell: string): string {
  return `# System-wide settings of login shells.
if [ "\${EUID:-$(id -u)}" -eq 0 ]; then
  PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
else
  PATH="/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
fi
export PATH="$HOME/.local/bin:$PATH"
export SHELL=${shell}

if [ "\${PS1-}" ]; then
  if [ "\${BASH-}" ] && [ "$BASH" != "/bin/sh" ]; then
    if [ -f /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi
  else
    PS1='$ '
  fi
fi

for file in /etc/profile.d/*.sh; do
  if [ -r "$file" ]; then . "$file"; fi
done
unset file
`;
}

export function hosts(hostname: string, address: string): string {
  return `127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n${address} ${hostname}\n`;
}

/** Content of /.e2b. */
export function buildFile({ templateId, buildId }: { templateId: string; buildId: string }): string {
  return `ENV_ID=${templateId}\nTEMPLATE_ID=${templateId}\nBUILD_ID=${buildId}\n`;
}
