import { playShare } from './histories.ts';

playShare(1);
