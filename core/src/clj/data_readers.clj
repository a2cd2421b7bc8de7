{magnetar/pid magnetar.impl.actor.text/read-pid
 magnetar/ref magnetar.impl.actor.text/read-ref}
