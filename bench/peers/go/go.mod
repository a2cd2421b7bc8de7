module magnetar/peer

go 1.22
