import { playShare } from './histories.ts';

playShare(2);
