/** psql: runs a script on a database. */
import { spawnSync } from 'node:child_process';

const [psql, address, script] = process.argv.slice(2);
const options = ['--no-psqlrc', '--quiet', '--set', 'ON_ERROR_STOP=1', '--file', script];
const { status, stderr } = spawnSync(psql, [address, ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
if (status !== 0) {
  process.stderr.write(String(stderr));
  process.exitCode = 1;
}
