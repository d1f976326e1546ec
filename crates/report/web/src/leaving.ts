/** What the open view has running, to be ended when it is left. */
export const leaving: (() => void)[] = [];
