
/* ---- Types of elements ----------------------------------------------------------------------------------- */

/* Each list applies X to the types of a set, to their names within names of functions, and to Y. In a list of DISTINCT
 * ones no two are the same type: int64_t is long. */
