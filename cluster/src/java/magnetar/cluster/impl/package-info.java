/**
 * The engine of a cluster: JGroups behind {@link magnetar.kernel.network.Network}, and who may join. Not for
 * programs: it may change at any time.
 */
package magnetar.cluster.impl;
