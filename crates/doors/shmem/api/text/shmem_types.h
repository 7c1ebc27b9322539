
/* ---- Types of elements ----------------------------------------------------------------------------------- */

/* Each list applies X to each type of a set, to the type's name within names of functions, and to Y. In a list of
 * DISTINCT types no two are the same type: int64_t is long. */
