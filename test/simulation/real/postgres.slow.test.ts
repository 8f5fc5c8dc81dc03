import { playInDatabase } from './histories.ts';

playInDatabase();
